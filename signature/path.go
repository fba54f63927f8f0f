package signature

// pathEnd gives the end of the file path that starts at i with '/', './',
// '../' or '~/', or 0 if there is none.
func (z *scanner) pathEnd(i int) int {
	switch p := z.before(i); {
	case i == 0, class[p]&cSpace != 0:
	case p == '"', p == '\'', p == '`', p == '(', p == '[', p == '{', p == '=', p == ',', p == ';', p == '|', p >= 0x80:
	case p == ':' && z.at(i+1) != '/':
	default:
		return 0
	}
	k := i
	for z.at(k) == '.' && k-i < 2 {
		k++
	}
	if k == i && z.at(k) == '~' {
		k++
	}
	if z.at(k) != '/' {
		return 0
	}
	c := z.at(k + 1)
	if !isAlnum(c) && c != '.' && c != '_' && c != '-' && c < 0x80 {
		return 0
	}
	return z.pathTail(k)
}

// pathTail gives the end of the path that goes on at k.
func (z *scanner) pathTail(k int) int {
	s := z.s
	e := k
	for e < z.end {
		c := s[e]
		if class[c]&cSpace != 0 {
			break
		}
		switch c {
		case '"', '\'', '`', ',', ';', ')', ']', '}', '>', '<', '|':
			if c == '"' || c == '\'' {
				for e > k && s[e-1] == '\\' {
					e-- // the quote's, not the path's
				}
			}
			return z.pathTrim(k, e)
		case ':':
			if n := z.at(e + 1); !isAlnum(n) && n != '\\' && n != '/' {
				return z.pathTrim(k, e)
			}
		}
		e++
	}
	return z.pathTrim(k, e)
}

func (z *scanner) pathTrim(k, e int) int {
	for e > k+1 && (z.s[e-1] == '.' || z.s[e-1] == '!' || z.s[e-1] == '?' || z.s[e-1] == ':') {
		e--
	}
	return e
}

// fileOperand reports whether the compound at i is the operand of a failed
// file operation, as Go writes it: "open report.json: no such file".
func (z *scanner) fileOperand(i, e int) bool {
	if z.at(e) != ':' && !(z.s[e-1] == ':' && e-1 > i) {
		return false
	}
	d := z.dst[z.base:]
	if len(d) == 0 || d[len(d)-1] != ' ' {
		return false
	}
	d = d[:len(d)-1]
	a := len(d)
	for a > 0 && class[d[a-1]]&cLetter != 0 {
		a--
	}
	if a > 0 && d[a-1] != ' ' {
		return false
	}
	switch string(d[a:]) {
	case "open", "stat", "lstat", "mkdir", "remove", "unlink", "unlinkat", "rename", "readlink", "chdir", "chmod", "truncate", "openat", "symlink", "readdirent", "getdents":
		return true
	}
	return false
}

// isFile reports whether a relative path names a file by its ending.
func isFile(t string) bool {
	k := 0
	// Line and column may follow the name.
	e := len(t)
	for e > 0 && (isDigit(t[e-1]) || t[e-1] == ':' || t[e-1] == '.') {
		e--
	}
	if e == 0 {
		return false
	}
	if e < len(t) && t[e] != ':' && t[e] != '.' {
		e = len(t)
	}
	t = t[:e]
	for k = len(t); k > 0 && isAlnum(t[k-1]); k-- {
	}
	for i := range k {
		if t[i] == ':' || t[i] == '@' {
			return false
		}
	}
	if k == 0 || t[k-1] != '.' || len(t)-k > 10 {
		return false
	}
	w := lowerWord(t[k:])
	switch string(w.b[:w.n]) {
	case "json", "jsonl", "ndjson", "txt", "text", "csv", "tsv", "log", "md", "yaml", "yml", "xml", "html", "htm", "pdf", "go", "py", "js", "ts",
		"rs", "c", "h", "cc", "cpp", "java", "rb", "sh", "db", "sqlite", "sqlite3", "wal", "lock", "tmp", "bak", "gz", "zip", "tar", "tgz", "zst", "parquet",
		"avro", "png", "jpg", "jpeg", "gif", "webp", "svg", "mp3", "mp4", "wav", "toml", "ini", "conf", "cfg", "env", "pem", "crt", "key", "sock",
		"pid", "so", "dll", "exe", "jar", "properties", "bin", "dat", "data", "out", "sql", "proto", "tmpl", "ipynb", "docx", "xlsx", "pptx", "doc", "xls", "mod", "sum":
		return true
	}
	return false
}
