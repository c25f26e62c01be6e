import { afterEach, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { SILENCE } from '../../test/silence.ts'
import { createThreadCalls } from './threadCalls.ts'

type Task = Uint8Array<ArrayBuffer> | 'throws' | 'rejects' | 'ends' | 'waits'

const file = new URL('../../test/threadOfTests.ts', import.meta.url)
const errors: object[] = []
const log = { ...SILENCE, error: (fields: object | string) => errors.push(Object(fields)) }
const thread = createThreadCalls<Task, Uint8Array>({ file, failed: 'the thread of tests failed', log })

afterEach(async () => {
  await thread.close()
  errors.length = 0
})

/** Returns the answer to a task, or the message of its error. */
const outcome = (task: Task) =>
  thread.call(task).then(
    (answer) => [...answer],
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

test('each caller gets the answer to its own task', async () => {
  const calls = [1, 2, 3].map((number) => outcome(Uint8Array.of(number, 10)))
  expect(thread.waiting).toBe(3)
  expect(await Promise.all(calls)).toEqual([
    [2, 20],
    [4, 20],
    [6, 20],
  ])
  expect(thread.waiting).toBe(0)
})

test('memory that is moved is the caller’s no more, and comes back with the answer', async () => {
  const task = Uint8Array.of(7)
  const answer = thread.call(task, [task.buffer])
  expect(task.byteLength).toBe(0)
  expect([...(await answer)]).toEqual([14])
})

test.each([
  ['throws', 'thrown'],
  ['rejects', 'rejected'],
  ['ends', 'it ended with code 3'],
] as const)(
  'a thread that %s fails all calls that it was given, and the next one starts another',
  async (how, words) => {
    const calls = [outcome('waits'), outcome(how)]
    for (const said of await Promise.all(calls)) expect(said).toContain(words)
    expect(errors).toHaveLength(1)
    expect(errors[0]).toMatchObject({ waiting: 2 })
    expect(thread.waiting).toBe(0)
    expect(await outcome(Uint8Array.of(1))).toEqual([2])
  },
)

test('tasks that wait when the thread is ended are told, and no failure is logged; a call afterwards starts it again', async () => {
  const waiting = outcome('waits')
  await thread.close()
  expect(await waiting).toBe('the thread was ended')
  expect(await outcome(Uint8Array.of(4))).toEqual([8])
  expect(errors).toEqual([])
})

test('a task that can not be sent is refused to its caller alone', async () => {
  const broken = (() => {}) as unknown as Task
  const other = outcome(Uint8Array.of(1))
  expect(await outcome(broken)).toContain('clone')
  expect(thread.waiting).toBe(1)
  expect(await other).toEqual([2])
})

/** The niceness of each thread of this process, by proc_pid_stat(5). */
function nicenessOfThreads(): Record<string, number> {
  const stats = readdirSync('/proc/self/task').map((id) => readFileSync(`/proc/self/task/${id}/stat`, 'utf8'))
  const fields = (stat: string) => stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Object.fromEntries(stats.map((stat) => [stat.slice(0, stat.indexOf(' ')), Number(fields(stat)[16])]))
}

test.if(process.platform === 'linux')(
  'the thread stands behind the event loop where both want a processor',
  async () => {
    await outcome(Uint8Array.of(1))
    const { [process.pid]: own, ...others } = nicenessOfThreads()
    expect(Object.values(others)).toContain(Math.min((own ?? 0) + 5, 19))
  },
)
