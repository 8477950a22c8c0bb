-- Monitor new users: people who came and opened an auction within the same ten seconds.
SELECT p.id, p.name, p.period.start AS start_time
FROM (
    SELECT id, name, window(dateTime, '10 seconds') AS period
    FROM person
    GROUP BY id, name, window(dateTime, '10 seconds')
) p JOIN (
    SELECT seller, window(dateTime, '10 seconds') AS period
    FROM auction
    GROUP BY seller, window(dateTime, '10 seconds')
) a ON p.id = a.seller AND p.period = a.period
