/**
 * Makes `dist/`: the whole command in one file that Node runs, and the licences of the packages in it. A folder to put it into may be
 * named.
 */

import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The packages that the file contains. Each licence asks to be passed on with it. */
const BUNDLED = ['commander', 'eventsource-parser']

const folder = process.argv[2] ?? join(import.meta.dirname, 'dist')
await rm(folder, { recursive: true, force: true })
await mkdir(folder, { recursive: true })
const built = await Bun.build({
  entrypoints: [join(import.meta.dirname, 'src/main.ts')],
  target: 'node',
  format: 'esm',
  external: ['@napi-rs/keyring'],
  banner: '#!/usr/bin/env node',
})
const [output] = built.outputs
if (output === undefined) throw new Error('nothing was built')
const program = join(folder, 'tollgate.js')
await writeFile(program, await output.text())
await chmod(program, 0o755)
await writeFile(join(folder, 'LICENSES.txt'), (await Promise.all(BUNDLED.map(licenceOf))).join('\n'))
console.log(`Built ${program}.`)

async function licenceOf(name: string): Promise<string> {
  let place = dirname(fileURLToPath(import.meta.resolve(name)))
  while (!(await Bun.file(join(place, 'LICENSE')).exists()) && dirname(place) !== place) place = dirname(place)
  return `${name}\n\n${await readFile(join(place, 'LICENSE'), 'utf8')}`
}
