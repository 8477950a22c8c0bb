"""Topics of Kafka as outputs: the newest message of each key is the row of a view."""
