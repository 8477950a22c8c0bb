MODEL (name main.home_goals, kind EMBEDDED);

SELECT home AS team, goals FROM raw.matches WHERE goals IS NOT NULL
