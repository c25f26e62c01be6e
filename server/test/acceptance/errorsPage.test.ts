import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ERROR_CATALOGUE } from '../../src/lib/errors.ts'

const PAGE = join(import.meta.dirname, '../../../docs/errors.md')

test('the page of errors lists the catalogue: each code in its order, with status, title and format', async () => {
  const text = await readFile(PAGE, 'utf8')
  const rows = [...text.matchAll(/^\| `([^`]+)` \| (\d+) \| ([^|]+) \| (A|B|A, B) \| ([^|]+) \|$/gm)]
  const listed = rows.map(([, code, status, title]) => [code, { status: Number(status), title }])
  expect(listed).toEqual(Object.entries(ERROR_CATALOGUE))
})

test('every code is used: what nothing can answer with has no place in the catalogue', async () => {
  const source = join(import.meta.dirname, '../../src')
  let text = ''
  for await (const file of new Bun.Glob('**/*.ts').scan(source)) {
    if (!file.endsWith('.test.ts') && file !== 'lib/errors.ts') text += await readFile(join(source, file), 'utf8')
  }
  const unused = Object.keys(ERROR_CATALOGUE).filter((code) => !text.includes(`'${code}'`))
  expect(unused).toEqual([])
})
