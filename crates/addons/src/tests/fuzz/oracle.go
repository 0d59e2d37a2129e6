// What Go and the libraries of Kubernetes say about texts that Weft reads too: a table for reading.rs, made by hand once.
//
//	go mod init oracle && go get k8s.io/apimachinery@v0.36.3 github.com/distribution/reference@v0.6.0 && go run oracle.go > go.tsv
package main

import (
	// Algorithms of digests.
	_ "crypto/sha256"
	_ "crypto/sha512"

	"fmt"
	"math/big"
	"math/rand"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// answer is what it is read as, or "error".
type kind struct {
	name   string
	known  string
	parts  string
	answer func(string) string
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "error"
}

var kinds = []kind{
	// Nanoseconds.
	{"duration", "168h0m0s 1.5h 1h30m 0 0s -1h +1h 1 .5s 5.s . 1µs 1μs 9223372036854775807ns 9223372036854775808ns 2562047h47m16s854ms775us807ns 2562048h 1h.5m 0.0000000001s 1d 1H", "0 1 9 30 999999 9999999 .5 . + - h m s ms us µs ns", func(text string) string {
		d, err := time.ParseDuration(text)
		if err != nil {
			return "error"
		}
		return strconv.FormatInt(int64(d), 10)
	}},
	// Octets.
	{"mac", "02:00:00:00:00:00 02-00-00-00-00-01 0200.0000.0001 02:00:00:00:00 02:00:00:00:00:00:00:00 02:00-00:00:00:00 2:0:0:0:0:0", "00 02 ff FE 0a 0 : - . 0200 g", func(text string) string {
		mac, err := net.ParseMAC(text)
		if err != nil {
			return "error"
		}
		return fmt.Sprintf("%x", []byte(mac))
	}},
	// As isIP of Kubernetes' CEL has it.
	{"ip", "192.0.2.53 192.0.2.053 2001:db8::53 ::1 :: ::ffff:192.0.2.1 fe80::1%eth0 1.2.3 256.0.0.1 2001:DB8::1 1.2.3.4.5 2001:db8::192.0.2.1", "0 1 255 256 . : :: ffff a 192.0.2.1 %eth0", func(text string) string {
		ip, err := netip.ParseAddr(text)
		return yes(err == nil && ip.Zone() == "" && !ip.Is4In6())
	}},
	// Billionths, rounded up.
	{"quantity", "0.1 100m 1 1k 1M 1G 1T 1P 1E 1Ki 1Mi 1Gi 1Ti 1Pi 1Ei 1e3 1E3 1e-3 +1 -1 .5 5. . 1.5Gi 0.0000000001 1n 1u 1K 1i 1e 12E 1,5 1e+2", "0 1 5 12 100 . + - n u m k M G T P E Ki Mi Gi Ti Pi Ei e 3 K", func(text string) string {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return "error"
		}
		decimal := quantity.AsDec()
		value := new(big.Int).Set(decimal.UnscaledBig())
		exponent := 9 - int64(decimal.Scale())
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(max(exponent, -exponent)), nil)
		if exponent >= 0 {
			return value.Mul(value, power).String()
		}
		return value.Quo(value, power).String()
	}},
	{"label", "a a-b -a a- A a.b a_b 0 " + strings.Repeat("a", 63) + " " + strings.Repeat("a", 64), "a b 0 - . _ A aa", func(text string) string {
		return yes(len(validation.IsDNS1123Label(text)) == 0)
	}},
	{"name", "a a.b a..b .a a. a-b.c-d -a.b a.-b A.b " + strings.Repeat("a", 253) + " " + strings.Repeat("a", 254), "a b 0 - . _ A aa", func(text string) string {
		return yes(len(validation.IsDNS1123Subdomain(text)) == 0)
	}},
	{"image", "a a:1 r.example:5000/a/b:v1 r.example/a@sha256:" + strings.Repeat("0a", 32) + " A a: a//b /a a/ [::1]:5000/a a__b a___b a--b a.-b R.example/a r.example:x/a a@sha256:00", "a b.c r.example : / 5000 v1 _ __ - . A @ sha256 " + strings.Repeat("0a", 32), func(text string) string {
		_, err := reference.Parse(text)
		return yes(err == nil)
	}},
}

func main() {
	random := rand.New(rand.NewSource(1))
	for _, kind := range kinds {
		texts, seen, parts := strings.Split(kind.known, " "), map[string]bool{}, strings.Split(kind.parts, " ")
		accepted := 0
		for len(seen) < 250 || accepted < 60 {
			text := ""
			if len(texts) > 0 {
				text, texts = texts[0], texts[1:]
			} else {
				for range 1 + random.Intn(6) {
					text += parts[random.Intn(len(parts))]
				}
			}
			answer := kind.answer(text)
			// More of what is accepted: most random texts are not.
			if seen[text] || (answer == "error" && len(seen) > 180 && len(texts) == 0) {
				continue
			}
			seen[text] = true
			if answer != "error" {
				accepted++
			}
			fmt.Printf("%s\t%s\t%s\n", kind.name, text, answer)
		}
	}
}
