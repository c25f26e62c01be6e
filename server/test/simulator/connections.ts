/** The database that the code of a simulated process is given: the real types, each await a point of the scheduler. */

import type { Database, SqlParameter, Transaction } from '../../src/infra/postgres/database.ts'
import type { Session } from '../../src/infra/postgres/session.ts'
import { atInstant } from '../turnedDatabase.ts'
import type { EngineSession, EngineTransaction, Soon } from './engine.ts'
import type { HeldSession, HeldTransaction, Machine } from './machine.ts'
import { StatementError } from './model/errors.ts'
import { isAboutServer, type Outage } from './outage.ts'
import type { World } from './world.ts'

/** Called before a statement is carried out, for the world to look or to act. */
export type Watch = (machine: Machine, text: string, parameters: readonly SqlParameter[]) => void | Promise<void>

export function databaseOf(world: World, machine: Machine, outage: Outage, watch: Watch): Database {
  const { engine } = world
  const statement = (held: HeldTransaction | null, text: string, parameters: readonly SqlParameter[] = []) =>
    world.ask(
      machine,
      nameOf(text),
      () => {
        outage.throwIfDown()
        const special = outage.answer(text, parameters)
        if (special !== null) return special
        if (held?.isOver === true) throw new StatementError('the connection of this transaction was closed')
        if (held !== null) held.usedAtMs = world.elapsedMs
        const on = held === null ? engine : held.server
        const turned = atInstant(text, parameters, world.databaseMs)
        const run = () => on.query(turned.text, turned.parameters)
        const watched = watch(machine, text, parameters)
        return watched instanceof Promise ? watched.then(run) : run()
      },
      {
        isBlocked: isAboutServer(text) ? () => false : engine.blocker(text, parameters, held?.server ?? null),
        onBroken: () => void (held !== null && end(held)),
      },
    )
  const end = (held: HeldTransaction) => {
    held.isOver = true
    machine.transactions.delete(held)
    return held.server.rollback()
  }
  return {
    query: <Row>(text: string, parameters?: readonly SqlParameter[]) =>
      statement(null, text, parameters) as Promise<Row[]>,
    async transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
      const held = await begin(world, machine, outage, end)
      let value: T
      try {
        value = await work({
          isTransaction: true,
          query: <Row>(text: string, parameters?: readonly SqlParameter[]) =>
            statement(held, text, parameters) as Promise<Row[]>,
        })
      } catch (error) {
        await end(held)
        throw error
      }
      const commit = () => {
        outage.throwIfDown()
        if (held.isOver) throw new StatementError('the connection of this transaction was closed')
        held.isOver = true
        machine.transactions.delete(held)
        return held.server.commit()
      }
      await world.ask(machine, 'commit', commit, { onBroken: () => void (held.isOver || end(held)) })
      return value
    },
    close: async () => {},
  }
}

async function begin(
  world: World,
  machine: Machine,
  outage: Outage,
  end: (held: HeldTransaction) => void | Promise<void>,
): Promise<HeldTransaction> {
  let made: HeldTransaction | null = null
  const hold = (server: EngineTransaction): HeldTransaction => {
    made = { server, isOver: false, usedAtMs: world.elapsedMs }
    if (machine.isAlive) machine.transactions.add(made)
    else void end(made)
    return made
  }
  const run = () => {
    outage.throwIfDown()
    const server = world.engine.begin()
    return server instanceof Promise ? server.then(hold) : hold(server)
  }
  return await world.ask(machine, 'begin', run, { onBroken: () => void (made !== null && end(made)) })
}

/** Opens a pinned connection, as `openSession` does. */
export async function sessionOf(world: World, machine: Machine, outage: Outage, watch: Watch): Promise<Session> {
  let lost = false
  let closed = false
  const callbacks: (() => void)[] = []
  const lose = () => {
    if (lost || closed) return
    lost = true
    for (const callback of callbacks.splice(0)) callback()
  }
  let made: HeldSession | null = null
  const hold = (server: EngineSession): HeldSession => {
    const held = { server, isGone: false, isSilent: false, silentSinceMs: 0, locked: new Set<number>(), lose }
    made = held
    if (machine.isAlive) machine.sessions.add(held)
    else void server.close()
    return held
  }
  const connect = () => {
    outage.throwIfDown()
    const server = world.engine.openSession()
    return server instanceof Promise ? server.then(hold) : hold(server)
  }
  const drop = (held: HeldSession) => closeSession(machine, held)
  const held = await world.ask(machine, 'connect', connect, { onBroken: () => void (made !== null && drop(made)) })
  const onSession = <T>(label: string, run: () => Soon<T>) => {
    const onServer = () => {
      outage.throwIfDown()
      if (held.isGone || held.isSilent) throw new StatementError('the connection was closed')
      return run()
    }
    return world.ask(machine, label, onServer, { onBroken: () => void drop(held) })
  }
  const refuse = () => Promise.reject(new Error('the simulator has no such lock'))
  return {
    query: <Row>(text: string, parameters: readonly SqlParameter[] = []) =>
      onSession(nameOf(text), () => {
        const run = () => held.server.query(text, parameters)
        const watched = watch(machine, text, parameters)
        return watched instanceof Promise ? watched.then(run) : run()
      }) as Promise<Row[]>,
    tryLock: (lockClass, id) =>
      onSession(`lock ${id}`, () => {
        const note = (isGiven: boolean) => {
          if (isGiven) held.locked.add(id)
          return isGiven
        }
        const given = held.server.tryLock(lockClass, id)
        return given instanceof Promise ? given.then(note) : note(given)
      }),
    endOlder: (_, id) => onSession(`end the older session with ${id}`, () => endSilent(machine, id)),
    tryLockShared: refuse,
    unlock: refuse,
    unlockShared: refuse,
    get lost() {
      return lost
    },
    fellSilent: false,
    onLost(callback) {
      if (lost) callback()
      else callbacks.push(callback)
    },
    async close() {
      closed = true
      // The server hears nothing of it where the network is silent.
      if (!held.isSilent) await drop(held)
    },
  }
}

/** Closes a pinned connection on the server's side. */
function closeSession(machine: Machine, held: HeldSession): Soon<void> {
  held.isGone = true
  machine.sessions.delete(held)
  return held.server.close()
}

/** Closes the silent connection of a machine that holds a lock; false: there is none. */
function endSilent(machine: Machine, id: number): Soon<boolean> {
  const silent = [...machine.sessions].find((each) => each.isSilent && each.locked.has(id))
  if (silent === undefined) return false
  const closed = closeSession(machine, silent)
  return closed instanceof Promise ? closed.then(() => true) : true
}

const NAMES: readonly (readonly [RegExp, string])[] = [
  [/wanted as/, 'renewal'],
  [/insert into charges/, 'post'],
  [/pg_notify/, 'notify'],
  [/pg_postmaster_start_time/, 'server start'],
  [/clock_timestamp\(\) as now/, 'clock'],
  [/pg_try_advisory_xact_lock/, 'lock in transaction'],
]

function nameOf(text: string): string {
  const known = NAMES.find(([words]) => words.test(text))
  return known?.[1] ?? text.replaceAll(/\s+/g, ' ').trim().slice(0, 40)
}
