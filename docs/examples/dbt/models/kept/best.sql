SELECT max(goals) AS most FROM {{ ref('home_goals') }}
