// Package recovery opens a whole store directory: commit log, consume queues and checkpoint together.
package recovery
