"""Read topics of Kafka with confluent-kafka."""
