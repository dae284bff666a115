from PIL import Image, ImageDraw, ImageFilter, ImageStat

img = Image.new("RGB", (200, 120), "white")
draw = ImageDraw.Draw(img)
draw.rectangle([10, 10, 90, 60], fill=(200, 30, 30), outline="black")
draw.ellipse([100, 20, 180, 100], fill="navy")
draw.line([(0, 119), (199, 0)], fill=(0, 128, 0), width=3)
img.save("shapes.png")

again = Image.open("shapes.png")
print(again.format, again.size, again.mode)
print("pixel in the box:", again.getpixel((20, 20)))
print("pixel in the disc:", again.getpixel((140, 60)))

grey = again.convert("L")
print("mean grey: %.1f" % ImageStat.Stat(grey).mean[0])
small = again.resize((50, 30), Image.LANCZOS)
print(small.size, again.rotate(90, expand=True).size, again.crop((0, 0, 20, 10)).size)
print("blurred:", again.filter(ImageFilter.GaussianBlur(3)).getpixel((0, 60)))
colours = sorted(again.getcolors(maxcolors=100_000), reverse=True)[:3]
print(colours)

ramp = " .:-=+*#%@"
tiny = grey.resize((40, 12))
for y in range(tiny.height):
    print("".join(ramp[9 - tiny.getpixel((x, y)) * 9 // 255] for x in range(tiny.width)).rstrip())
