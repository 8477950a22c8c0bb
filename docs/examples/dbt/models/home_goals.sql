{{ config(materialized='ephemeral') }}
SELECT home AS team, goals FROM {{ source('raw', 'matches') }} WHERE goals IS NOT NULL
