package budget

// OpenFileOn opens a File on a file system of the tests.
var OpenFileOn = openFile
