/**
 * Installs the packages that only tests need, at locked versions: the clients of others that tests run against Tollgate. `npm ci`
 * does not bring them, since operators run that too. The engine for GGUF files and the client of
 * Kubernetes come with their tests (`ggufEngine.ts`, `kubernetesClient.ts`).
 */
import { installPackages } from '../src/infra/npmPackages.ts'

if (await installPackages({ folder: import.meta.dirname, environment: process.env })) {
  console.log('Installed the packages of the tests.')
}
