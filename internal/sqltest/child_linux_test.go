package sqltest

const childMode = "NIGHTFUSE_SQLTEST_CHILD"

func child(string) {}
