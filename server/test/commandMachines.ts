/** An operator's command that makes machines: they are files of a folder. */

import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface MachineUrls {
  /** `$1` in a URL is the name of the machine. */
  readonly app: string
  readonly terminal?: string
}

/**
 * Writes the command into a folder; returns its path. While there is a file `refuse` in it, no machine is made, nor is one ever for an
 * app `refused`. One for an app `slow` is never done.
 */
export async function writeMachineCommand(
  folder: string,
  { app, terminal }: MachineUrls = { app: 'http://10.0.0.1/$1' },
): Promise<string> {
  const path = join(folder, 'cloud')
  const urls = `\\"app_url\\":\\"${app}\\"${terminal === undefined ? '' : `,\\"terminal_url\\":\\"${terminal}\\"`}`
  const script = `#!/bin/sh
cd ${folder} || exit 1
asked=$(cat)
name=$(echo "$asked" | sed 's/.*"name":"\\([^"]*\\)".*/\\1/')
machine() { echo "{\\"name\\":\\"$1\\",\\"state\\":\\"$(cat "$1.machine")\\",${urls}}"; }
case $1 in
  create)
    [ -e refuse ] && exit 3
    state=running
    case $asked in *'"app":"refused"'*) exit 3 ;; *'"app":"slow"'*) state=creating ;; esac
    echo $state > "$name.new"
    mv "$name.new" "$name.machine"
    echo "{\\"machine\\":$(machine "$name")}" ;;
  status) if [ -e "$name.machine" ]; then echo "{\\"machine\\":$(machine "$name")}"; else echo '{"machine":null}'; fi ;;
  delete) rm -f "$name.machine" ;;
  list)
    all=
    for file in *.machine; do
      [ -e "$file" ] && all="$all\${all:+,}$(machine "\${file%.machine}")"
    done
    echo "{\\"machines\\":[$all]}" ;;
esac
`
  await writeFile(path, script)
  await chmod(path, 0o755)
  return path
}
