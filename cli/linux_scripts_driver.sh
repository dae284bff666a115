# Runs scripts, which come as text with a zero byte after each, and tells of each one: its exit code, its output, and the files that
# it left. Each runs in an empty directory of its own below the one that is named.
umask 022
number=0
while IFS= read -r -d '' script; do
  number=$((number + 1))
  place=$1/$number
  mkdir -p "$place/d" && cd "$place/d" || exit 1
  timeout -k 1 20 bash -c "$script" < /dev/null > ../out 2> /dev/null
  code=$?
  {
    find . -mindepth 1 \( -name .git -o -name __pycache__ \) -prune -o -type d -printf '%P d %m\n' -o -printf '%P %y %m %n %s %l\n'
    find . \( -name .git -o -name __pycache__ \) -prune -o -type f -print0 | xargs -0 -r md5sum
  } 2> /dev/null | LC_ALL=C sort > ../tree
  printf '%d %d %d %d\n' $number $code "$(stat -c %s ../out)" "$(stat -c %s ../tree)"
  cat ../out ../tree
  cd / && rm -rf "$place"
done
