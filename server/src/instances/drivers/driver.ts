/** The interface of every driver: it makes machines, and knows each by the name that we chose. */

/** The machine to make. All of it is the operator's, or was checked against the operator's settings. */
export interface MachineSpec {
  readonly organizationId: string
  readonly app: string
  readonly image: string | null
  readonly command: readonly string[] | null
  readonly port: number
  readonly terminal: boolean
  readonly gpuType: string
  readonly gpuCount: number
  readonly diskGb: number
  readonly model: string | null
}

/**
 * - `creating`: it is being made
 * - `running`: its app answers
 * - `ended`: its app has ended by itself
 */
export type MachineState = 'creating' | 'running' | 'ended'

export interface DriverMachine {
  readonly name: string
  readonly state: MachineState
  /** Where its app, and its terminal, answer; null: nowhere. */
  readonly appUrl: string | null
  readonly terminalUrl: string | null
}

/** Each call ends, with its signal at the latest. A rejection means that nobody knows what became of it: it is asked again. */
export interface InstanceDriver {
  /** Stands in tables and log lines. */
  readonly kind: string
  /** Names the place of all its machines, where no other place finds them. Left out: they are found from everywhere. */
  readonly place?: string
  /**
   * Makes a machine, or finds the one that has the name: there is never a second. Throws {@link CreateRefused} where it never
   * will.
   */
  create(name: string, spec: MachineSpec, signal: AbortSignal): Promise<DriverMachine>
  /** Null: there is no machine of the name. */
  status(name: string, signal: AbortSignal): Promise<DriverMachine | null>
  /** Deletes the machine of the name, or begins to. Does nothing where there is none. */
  delete(name: string, signal: AbortSignal): Promise<void>
  /** Every machine that there is. */
  list(signal: AbortSignal): Promise<readonly DriverMachine[]>
  /**
   * Tells the names of machines whose state has changed, until the signal aborts; it never rejects. Changes may be missed, and told
   * where there are none. Left out: they are found by asking.
   */
  watch?(tell: (name: string) => void, signal: AbortSignal): Promise<void>
}

/** The driver will not make a machine, however often it is asked; `isFull`: unless a machine that there is goes away. */
export class CreateRefused extends Error {
  readonly isFull: boolean
  constructor(isFull = false) {
    super(`the driver ${isFull ? 'has no place for' : 'refused to make'} the machine`)
    this.name = 'CreateRefused'
    this.isFull = isFull
  }
}
