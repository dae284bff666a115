import email
from email import policy
from email.message import EmailMessage

message = EmailMessage()
message["Subject"] = "Grüße vom Fluss"
message["From"] = "Ines Almeida <ines@example.org>"
message["To"] = "omar@example.org, Lena <lena@example.com>"
message["Date"] = "Tue, 05 Mar 2024 10:00:00 +0000"
message.set_content("The level is 118 cm.\nRegards, the gauge\n")
message.add_alternative("<p>The level is <b>118 cm</b>.</p>", subtype="html")
message.add_attachment(b"gauge,level\nmill,118\n", maintype="text", subtype="csv", filename="levels.csv")

raw = message.as_bytes()
print("bytes:", len(raw) > 800)

parsed = email.message_from_bytes(raw, policy=policy.default)
print(parsed["subject"], "|", [a.addr_spec for a in parsed["to"].addresses])
for part in parsed.walk():
    print(part.get_content_type(), part.get_filename() or "-")
print(parsed.get_body(preferencelist=("plain",)).get_content().strip())
for attachment in parsed.iter_attachments():
    print(attachment.get_filename(), repr(attachment.get_content()))
