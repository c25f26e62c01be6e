import { expect, test } from 'bun:test'
import { spawnSync } from 'node:child_process'
import { commandToType } from './shellWords.ts'

test.each([
  'plain',
  'two words',
  "it's",
  'say "hi"',
  'a\nb\tc\\d',
  'both \' and "',
  '$HOME `id` !x',
  'right\u202eleft',
  '',
])('bash reads %j as it was', (word) => {
  const quoted = commandToType(['image', word])
  expect(quoted).toMatch(/^"tollgate [^"\n]*"$/)
  const script = `tollgate() { printf '%s|' "$@"; }; ${quoted.slice(1, -1)}`
  const { stdout } = spawnSync('bash', ['-c', script], { encoding: 'utf8', env: { ...process.env, LC_ALL: 'C.UTF-8' } })
  expect(stdout).toBe(`image|${word}|`)
})
