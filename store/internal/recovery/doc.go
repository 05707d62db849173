// Package recovery opens a whole store directory: commit log, consume queues and checkpoint together. It is the only recovery there is: the store runs it
// at each open, the offline tool runs it by hand.
//
// The commit log is the truth and everything else is derived from it. So there is one algorithm:
//
//  1. Find where the log ends (package commitlog: whole records with good checksums; what is cut is kept in quarantine).
//  2. Cut the queues to that end.
//  3. Read the log from an offset on, comparing each record with its unit and appending the units that are missing at a queue's end.
//  4. Queues that still disagree with the log (lost, shortened at the head, units that point elsewhere) are emptied and built again from the log's start.
//  5. Make all of it durable, then say so: checkpoint page, summary.
//
// Only the starting points of 1 and 3 depend on how the last exit went and on what was left behind:
//
//	                      1 scan of the log's tail              3 comparison with the queues
//	clean, summary        the segment of the last known record  the summary's end
//	clean, no summary     at most the last three segments       the log's start
//	unclean, summary      the summary's last record             the summary's end
//	unclean, no summary   by the checkpoint's time (4.6)        the log's start
//
// A summary (package checkpoint) says that at some moment everything below its end was durable in log and queues, and how far each queue reached then. It
// is believed only if the log still holds the very record that it names; and a queue that it knows better than the directory does lacks units. Without one,
// as in a directory that RocketMQ itself left behind, only the whole log can tell (one pass over record headers; Options.SkipQueueCheck leaves it out).
//
// Queue offsets that the original used twice (it lost a queue and began again, or a topic was deleted and made again): numbering that starts again at 0
// replaces what was before, since that is what consumers were served last; any other repetition leaves the first record in place, as the original's guard
// against duplicates does. A run of offsets that is missing in the log itself ends a numbering too: the queue holds what follows. Both are reported.
//
// A crash at any point is harmless: steps 1 to 4 are functions of the log, the old summary is removed before a queue is emptied, and the new one is written last.
package recovery
