/** Imported by tests that speak to a cluster: installs its client when it is missing. The runner of the tests does so before it starts them. */
import { installClusterClient } from '../src/instances/drivers/kubernetes/install.ts'

await installClusterClient({ environment: process.env })
