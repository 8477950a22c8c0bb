SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECONDS, p.dateTime) AS start_time
FROM person p JOIN auction a
    ON p.id = a.seller
    AND time_bucket(INTERVAL 10 SECONDS, p.dateTime) = time_bucket(INTERVAL 10 SECONDS, a.dateTime)
