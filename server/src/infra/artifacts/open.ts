import { join } from 'node:path'
import type { Artifacts } from '../artifacts.ts'
import { type FolderDependencies, openFolderArtifacts } from './folder.ts'
import { openS3Artifacts, type S3Place } from './s3.ts'

/** Where artifacts are kept. */
export type ArtifactPlace =
  /** An absolute path; null: the folder `artifacts` of the data directory. */
  { readonly kind: 'folder'; readonly path: string | null } | ({ readonly kind: 's3' } & S3Place)

/** The artifacts of one area, which has a folder (or prefix) of its own beneath the place. */
export function openArtifacts(
  place: ArtifactPlace,
  area: 'answers' | 'videos',
  dataDirectory: string,
  dependencies: FolderDependencies,
): Artifacts {
  if (place.kind === 's3') return openS3Artifacts(place, area, dependencies.clock)
  return openFolderArtifacts(join(place.path ?? join(dataDirectory, 'artifacts'), area), dependencies)
}
