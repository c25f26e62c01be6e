import type { Fleet } from './fleet.ts'
import type { Machine } from './machine.ts'
import type { Outage } from './outage.ts'
import type { Plan } from './plan.ts'
import type { Candidate, World } from './world.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** How far clocks are turned. */
const TURNS_MS = [-25 * HOUR_MS, -2 * HOUR_MS, 5_000, 20 * HOUR_MS, 40 * 24 * HOUR_MS] as const

/** Weights beside the 4 of a statement or a letter: trouble comes now and then, and does not last for ever. */
const RARE = 0.12
const SOON = 0.4

/** Returns the troubles that may come next, as far as the plan's budget of each kind lasts. */
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
    // It does not stay turned for long, beside what time leaps.
    if (world.isDatabaseTurned) offer(SOON / 4, () => world.turnDatabase(0))
    else if (left.turns > 0) {
      offer(RARE, () => spend('turns', () => world.turnDatabase(random.pick(TURNS_MS))))
      if (first !== undefined) offer(RARE, () => spend('turns', () => with_(anyone(), turnWall)))
    }
    return found
  }

  function turnWall(machine: Machine): void {
    machine.wallAheadMs = random.pick(TURNS_MS)
    world.note(`the wall clock of ${machine.name} is turned ${machine.wallAheadMs} ms ahead`)
  }

  function spend(kind: 'crashes' | 'pauses' | 'cuts' | 'outages' | 'jumps' | 'turns', happen: () => void): void {
    left[kind] -= 1
    happen()
  }
}

function with_<T>(value: T | undefined, use: (value: T) => void): void {
  if (value !== undefined) use(value)
}
