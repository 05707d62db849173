// Package record is one message and its bytes in RocketMQ's commit log.
package record
