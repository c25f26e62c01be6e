import type { Fleet } from './fleet.ts'
import type { Outage } from './outage.ts'
import type { Plan } from './plan.ts'
import type { Candidate, World } from './world.ts'

const MINUTE_MS = 60_000

/** Weights beside the 4 of a statement or a letter: trouble comes now and then, and does not last for ever. */
const RARE = 0.12
const SOON = 0.4

/** What may go wrong next, as far as the plan's budget of each kind lasts. */
export function troublesOf(
  world: World,
  outage: Outage,
  fleet: Fleet,
  { trouble, processes }: Plan,
): () => Candidate[] {
  const left = { ...trouble }
  const { random } = world
  world.fate = () => (random.percent(left.lostPercent) ? random.pick(['before', 'after']) : 'fine')
  return () => {
    const found: Candidate[] = []
    const offer = (weight: number, happen: () => void) => found.push({ weight, happen })
    const machines = world.machines.filter((machine) => machine.isAlive && machine !== world.machines[0])
    const running = machines.filter((machine) => !machine.isPaused)
    const [first] = running
    const anyone = () => running[random.between(0, running.length - 1)] ?? first
    for (const machine of machines) if (machine.isPaused) offer(SOON, () => fleet.resume(machine))
    if (machines.length < processes) offer(SOON, () => fleet.start())
    if (outage.isDown) offer(SOON, () => outage.comeUp())
    else if (left.outages > 0) offer(RARE, () => spend('outages', () => outage.goDown()))
    if (first !== undefined) {
      if (left.crashes > 0)
        offer(RARE, () => spend('crashes', () => with_(anyone(), (each) => fleet.kill(each, 'kill -9'))))
      if (left.pauses > 0) offer(RARE, () => spend('pauses', () => with_(anyone(), (each) => fleet.pause(each))))
    }
    if (left.cuts > 0) {
      for (const machine of machines) {
        for (const session of machine.sessions) {
          if (session.isSilent) continue
          const cut = () => (random.percent(50) ? outage.silence(machine, session) : outage.cut(machine, session))
          offer(RARE / machines.length, () => spend('cuts', cut))
        }
      }
    }
    if (left.jumps > 0) {
      offer(RARE, () =>
        spend('jumps', () => {
          world.elapsedMs += random.between(1, 70) * MINUTE_MS
          world.note('TIME LEAPS')
        }),
      )
    }
    return found
  }

  function spend(kind: 'crashes' | 'pauses' | 'cuts' | 'outages' | 'jumps', happen: () => void): void {
    left[kind] -= 1
    happen()
  }
}

function with_<T>(value: T | undefined, use: (value: T) => void): void {
  if (value !== undefined) use(value)
}
