/**
 * Loaded before the program, by `BUN_OPTIONS=--preload`: a machine whose wall clock is set wrong, and right again. Each SIGUSR2 goes on to
 * the next of the jumps in `TEST_CLOCK_JUMPS_MS`, with the true time before, between and after them.
 */

const jumpsMs = (process.env['TEST_CLOCK_JUMPS_MS'] ?? '').split(',').map(Number)
const stages = [0, ...jumpsMs.flatMap((jumpMs) => [jumpMs, 0])]
// One jump is a command's: its clock is wrong from its start to its end.
let stage = jumpsMs.length > 1 ? 0 : 1
process.on('SIGUSR2', () => {
  stage += 1
})

const True = Date
const now = () => True.now() + (stages[stage] ?? 0)

/** The date by the wrong clock, wherever none is given. */
globalThis.Date = new Proxy(True, {
  construct: (target, given: readonly unknown[]) =>
    given.length === 0 ? new target(now()) : Reflect.construct(target, given),
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
})
