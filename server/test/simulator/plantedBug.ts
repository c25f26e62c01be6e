import type { TroubleName } from './plan.ts'

export interface Exchange {
  /** From `server/src`. */
  readonly file: string
  /** Stands in the file exactly once; a change of the code that moves it must move it here too. */
  readonly search: string
  readonly replace: string
}

export interface PlantedBug extends Exchange {
  readonly name: string
  /** Where one alone is caught by the code itself. In other files. */
  readonly also?: readonly Exchange[]
  /** Statements are the model's own in a history without a server: a bug in SQL shows on PostgreSQL only. */
  readonly shownBy: 'model' | 'postgres'
  /** The trouble that it needs to show; left out: any history may show it. */
  readonly trouble?: TroubleName
}
