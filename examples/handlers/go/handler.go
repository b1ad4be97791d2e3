// An HTTP handler for orders, with the standard library only.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
)

type order struct {
	Quantity int  `json:"quantity"`
	Flaky    bool `json:"flaky"`
}

var handled sync.Map // In a real handler: a table, written in the transaction that does the work.

func handle(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if _, before := handled.Load(key); before {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var o order
	if err := json.Unmarshal(body, &o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case o.Flaky && r.Header.Get("redrive-attempt") == "1":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the warehouse is closed", http.StatusServiceUnavailable)
	case o.Quantity > 100:
		w.Header().Set("redrive-verdict", "park")
		w.Header().Set("redrive-reason", "TOO_MANY")
	default:
		handled.Store(key, true)
		w.WriteHeader(http.StatusNoContent)
	}
}

func main() {
	port := cmp.Or(os.Getenv("PORT"), "3000")
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(handle)))
}
