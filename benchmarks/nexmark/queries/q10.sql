-- Log to a file system: bids with their day and minute, which are the folders of the files.
SELECT auction, bidder, price, dateTime, extra,
    date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm
FROM bid
