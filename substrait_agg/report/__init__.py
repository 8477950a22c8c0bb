"""Write the results of validation and explain in every format: text, JSON, SARIF and HTML.

Input are the problems and the content of a plan (`plan_problems`), or an explanation.
`places` relates problems to lines of the file. `sarif` and `html` write documents.
"""
