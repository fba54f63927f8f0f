package signature

// keptMixed lists names that hold a digit and are words all the same.
func keptMixed(s string) bool {
	w := lowerWord(s)
	switch string(w.b[:w.n]) {
	case "sha1", "sha2", "sha3", "sha224", "sha256", "sha384", "sha512", "md4", "md5", "crc32", "crc64", "blake2b", "blake3",
		"hs256", "hs384", "hs512", "rs256", "rs384", "rs512", "es256", "es384", "es512", "ps256", "p256", "p384", "p521",
		"rsa2048", "rsa4096", "x25519", "ed25519", "aes128", "aes256", "pkcs1", "pkcs7", "pkcs8", "pkcs12", "x509", "asn1",
		"utf8", "utf16", "utf32", "latin1", "base16", "base32", "base58", "base64", "cp1252", "gb18030",
		"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16",
		"complex64", "complex128", "i32", "i64", "u8", "u32", "u64", "f32", "f64",
		"h2", "h2c", "h3", "http1", "http2", "http3", "ipv4", "ipv6", "ip4", "ip6", "inet6", "socks4", "socks5",
		"ssl2", "ssl3", "sslv2", "sslv3", "tls1", "tls10", "tls11", "tls12", "tls13", "tlsv1", "oauth1", "oauth2", "saml2", "fido2",
		"s3", "ec2", "r2", "b2", "k8s", "k3s", "i18n", "l10n", "a11y", "e2e", "p2p", "b2b", "n8n", "mp3", "mp4", "h264", "h265", "3gp", "7z", "bz2",
		"amd64", "arm64", "x86", "x64", "i386", "win32", "win64", "neo4j", "log4j", "db2", "web3",
		"mp3s", "ext4", "fat32", "lz4", "gpt2", "gpt3", "gpt4", "o1", "o3", "o4", "4o", "bm25", "int4", "fp8", "fp16", "fp32", "bf16":
		return true
	}
	return false
}

// versioned reports whether ".3" behind w names a protocol, not an amount.
func versioned(s string) bool {
	return hasPrefixFold(s, "tls") || hasPrefixFold(s, "ssl") || hasPrefixFold(s, "http")
}

// keptName gives the length of the name with digits that t starts with: a
// model, an algorithm, an encoding, a vendor's error number. 0 if none.
func keptName(t string) int {
	if len(t) < 2 {
		return 0
	}
	for k := 0; k < len(t); {
		if n := modelName(t[k:]); n > 0 {
			return trimName(t, k+n)
		}
		// "anthropic.claude-3", "meta-llama/Llama-3.1": the maker stands in front.
		for k < len(t) && class[t[k]]&cLetter != 0 {
			k++
		}
		if k == 0 || k >= len(t) || t[k] != '.' && t[k] != '/' {
			break
		}
		k++
	}
	for _, p := range byLetter(&numberedNames, t[0]) {
		if !hasPrefixFold(t, p) || len(t) == len(p) || !isDigit(t[len(p)]) {
			continue
		}
		k := len(p)
		for k < len(t) && isAlnum(t[k]) {
			k++
		}
		if k-len(p) > 5 {
			return 0
		}
		switch p { // further parts belong to the name: iso-8859-1, aes-256-gcm
		case "iso-", "aes-", "http/":
			for k+1 < len(t) && (t[k] == '-' || t[k] == '.') && isAlnum(t[k+1]) {
				k++
				for k < len(t) && isAlnum(t[k]) {
					k++
				}
			}
		}
		return k
	}
	return 0
}

// numberedNames gives the prefixes, by first letter, after which a number is
// part of a name.
var numberedNames = [128][]string{
	'a': {"aes-"},
	'c': {"cve-"},
	'd': {"dpi-"},
	'e': {"ecdsa-p"},
	'h': {"http/"},
	'i': {"iso-"},
	'm': {"md-"},
	'o': {"ora-"},
	'p': {"p-", "pls-"},
	's': {"sha-", "sha3-"},
	't': {"tns-"},
	'u': {"utf-"},
	'w': {"windows-"},
}

// models are the families of models whose versions must stay apart.
// Those that are words of their own need a digit, see modelName.
var models = [128][]string{
	'a': {"ada-"},
	'b': {"babbage-"},
	'c': {"claude-", "chatgpt-", "command-", "codestral", "codellama", "cohere."},
	'd': {"davinci-", "deepseek-", "dall-e-", "devstral"},
	'e': {"embed-", "ernie-"},
	'g': {"gpt-", "gemini-", "gemma", "grok-", "glm-"},
	'j': {"jamba-"},
	'k': {"kimi-"},
	'l': {"llama"},
	'm': {"mistral", "mixtral", "ministral", "magistral"},
	'n': {"nova-", "nomic-"},
	'o': {"o1-", "o3-", "o4-"},
	'p': {"phi-", "pixtral"},
	'q': {"qwen", "qwq-"},
	'r': {"rerank-"},
	's': {"sonar-"},
	't': {"text-embedding-", "text-davinci-", "titan-", "tts-"},
	'v': {"voyage-"},
	'w': {"whisper-"},
	'y': {"yi-"},
}

// modelName gives the length of the model name t starts with, or 0.
func modelName(t string) int {
	for _, p := range byLetter(&models, t[0]) {
		if !hasPrefixFold(t, p) {
			continue
		}
		k, digit := 0, false
		for k < len(t) && (isAlnum(t[k]) || t[k] == '-' || t[k] == '.' || t[k] == '_' || t[k] == ':' && k+1 < len(t) && isAlnum(t[k+1])) {
			digit = digit || isDigit(t[k])
			k++
		}
		if digit && k <= 64 {
			return k
		}
	}
	return 0
}

func trimName(t string, n int) int {
	for n > 0 && !isAlnum(t[n-1]) {
		n--
	}
	return n
}

// isUnit reports whether s is a unit of time or size, or the zone of a time.
func isUnit(s string) bool {
	w := lowerWord(s)
	switch string(w.b[:w.n]) {
	case "s", "sec", "secs", "second", "seconds", "ms", "msec", "msecs", "millis", "millisecond", "milliseconds", "us", "ns",
		"min", "mins", "minute", "minutes", "h", "hr", "hrs", "hour", "hours", "day", "days", "week", "weeks",
		"kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib",
		"gmt", "utc", "cet", "cest", "bst", "est", "edt", "pst", "pdt", "mst", "am", "pm":
		return true
	}
	return false
}
