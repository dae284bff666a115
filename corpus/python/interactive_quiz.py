questions = [
    ("What is the capital of Norway?", {"oslo"}),
    ("What is 7 * 8?", {"56", "fifty-six"}),
    ("Which language runs this quiz?", {"python"}),
]

print("Welcome to the quiz!")
name = input("Your name: ").strip() or "stranger"
score = 0
for number, (question, answers) in enumerate(questions, 1):
    answer = input(f"{number}. {question} ")
    if answer.strip().lower() in answers:
        print("Correct!")
        score += 1
    else:
        print(f"Wrong. It is {sorted(answers)[0]}.")

print(f"{name}, you have {score} of {len(questions)}.")
while True:
    try:
        if input("Again? [y/n] ").lower().startswith("n"):
            print("Bye.")
            break
    except EOFError:
        print("\nNo more input.")
        break
