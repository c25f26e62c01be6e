import { expect, test } from 'bun:test'
import { spawnSync } from 'node:child_process'
import { testSystem } from '../test/testSystem.ts'
import { runLine } from './run.ts'

async function complete(...typed: string[]): Promise<string[]> {
  const { system, printed } = testSystem()
  expect(await runLine(['complete', '--', ...typed], system)).toBe(0)
  return printed.out.split('\n').slice(0, -1)
}

test.each<[string[], string[]]>([
  [['vid'], ['video']],
  [['compl'], ['completion']],
  [
    ['video', 'c'],
    ['create', 'cancel'],
  ],
  [
    ['usage', '--bucket', ''],
    ['hour', 'day', 'week', 'month'],
  ],
  [['usage', '--bu'], ['--bucket']],
  [
    ['limits', ''],
    ['set', '--server', '--json', '--no-input', '--help'],
  ],
  [['chat', '--model', 'svc/sandbox', '--max'], ['--max-tokens']],
  [['chat', '--model', ''], []],
  [['nonsense', ''], []],
])('after %j may come %j', async (typed, next) => {
  expect(await complete(...typed)).toEqual(next)
})

test('the script for bash is one that bash understands, and completes by it', async () => {
  const { system, printed } = testSystem()
  await runLine(['completion', 'bash'], system)
  const script = `${printed.out}
tollgate() { [ "$1 $2 $3" = "complete -- vid" ] && echo video; }
COMP_WORDS=(tollgate vid); COMP_CWORD=1; _tollgate; echo "\${COMPREPLY[@]}"`
  expect(spawnSync('bash', ['-c', script], { encoding: 'utf8' })).toMatchObject({ stdout: 'video\n', stderr: '' })
})
