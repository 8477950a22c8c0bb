-- Monitor new users: people who came and opened an auction within the same ten seconds.
SELECT p.id, p.name, p.start_time
FROM (
    SELECT id, name, window.start AS start_time, window.end AS end_time
    FROM person
    GROUP BY id, name, window(dateTime, '10 seconds')
) p JOIN (
    SELECT seller, window.start AS start_time, window.end AS end_time
    FROM auction
    GROUP BY seller, window(dateTime, '10 seconds')
) a ON p.id = a.seller AND p.start_time = a.start_time AND p.end_time = a.end_time
