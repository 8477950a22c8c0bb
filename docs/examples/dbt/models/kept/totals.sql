SELECT team, count(*) AS matches, sum(goals) AS goals FROM {{ ref('home_goals') }} GROUP BY team
