// Reads a file and the environment, waits, and runs goroutines.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

func main() {
	file, err := os.Open("/input/words.txt")
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	counts := map[string]int{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		for _, word := range strings.Fields(scanner.Text()) {
			counts[word]++
		}
	}
	text, _ := json.Marshal(counts)
	fmt.Printf("%s %x\n", text, sha256.Sum256(text))
	results := make(chan int)
	for i := 0; i < 4; i++ {
		go func() {
			time.Sleep(time.Duration(4-i) * time.Millisecond)
			results <- i * i
		}()
	}
	sum := 0
	for i := 0; i < 4; i++ {
		sum += <-results
	}
	fmt.Println(sum, os.Getenv("GREETING"), os.Args[1:])
	if err := os.MkdirAll("/out/a/b", 0o755); err != nil {
		fmt.Println(err)
	}
	os.WriteFile("/out/a/b/file", []byte("written"), 0o644)
	os.Rename("/out/a/b/file", "/out/a/renamed")
	names := []string{}
	filepath.Walk("/out", func(path string, info os.FileInfo, err error) error {
		names = append(names, path)
		return err
	})
	sort.Strings(names)
	fmt.Println(names)
	_, err = os.ReadFile("/missing")
	fmt.Println(err)
	os.Exit(5)
}
