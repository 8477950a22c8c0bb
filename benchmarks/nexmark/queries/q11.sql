-- User sessions: the bids of a person without ten seconds between them.
SELECT bidder, count(*) AS bids, session_window.start AS start_time, session_window.end AS end_time
FROM bid
GROUP BY bidder, session_window(dateTime, '10 seconds')
