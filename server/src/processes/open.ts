import type { DatabaseAddress } from '../infra/postgres/address.ts'
import { openSession } from '../infra/postgres/session.ts'
import { MINUTE_MS } from '../lib/time.ts'
import { type Listener, type ListenerOptions, openListener } from './listen.ts'
import { claimSlot, type SlotOptions } from './slot.ts'

export interface ProcessesOptions extends Omit<SlotOptions, 'connect' | 'onRegained'> {
  /** For the session that holds the slot, and for the listener: neither is of the pool. */
  readonly databaseAddress: DatabaseAddress
  /** Of this process; null: it has none, and can't end what it left behind. */
  readonly token: string | null
}

/** Opens the room of processes: takes a slot for this one, and begins to fold what dead processes left behind, which may take long. */
export async function openProcesses(options: ProcessesOptions) {
  const { databaseAddress, clock, token } = options
  const whenRegained: (() => void)[] = []
  let listener: Listener | null = null
  const slot = await claimSlot({
    ...options,
    connect: () => openSession(databaseAddress, clock, { kind: 'slot', token }),
    onRegained: () => {
      for (const callback of whenRegained) callback()
    },
  })
  const folding = slot.foldAbandoned().catch((error: unknown) => {
    options.log.warn({ err: error }, 'what dead processes left behind could not be folded; it is tried again')
  })
  return {
    slot,
    /** `callback` runs whenever the slot was lost for a while, and it or another one is owned now. */
    onRegained(callback: () => void): void {
      whenRegained.push(callback)
    },
    /** Begins to listen. Once, when every room that has channels is open. */
    listen(heard: Omit<ListenerOptions, 'clock'>): void {
      listener = openListener(databaseAddress, { clock, ...heard })
    },
    periodicTasks: [{ name: 'slots of dead processes', everyMs: MINUTE_MS, run: () => slot.foldAbandoned() }],
    readiness: () => (slot.isOwned() ? [] : ['the connection that holds this process’s slot is lost']),
    async close(): Promise<void> {
      await Promise.all([listener?.close(), slot.release(), folding])
    },
  }
}
