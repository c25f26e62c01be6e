/** The script of the pages that ask a device. It is the only one that these pages may run, by its hash. */

/**
 * Asks the device when the form is sent: by the options in `data-passkey`, for a new passkey where `data-new` is there. Puts the
 * answer into the field `answer` and sends the form. Where the device gives none, the element `problem` says so.
 */
export const PASSKEY_SCRIPT = `
const form = document.querySelector('form[data-passkey]')
const problem = document.getElementById('problem')
const toBytes = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (each) => each.charCodeAt(0))
const toText = (buffer) => btoa(Array.from(new Uint8Array(buffer), (each) => String.fromCharCode(each)).join(''))
  .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
const make = async (options) => {
  options.user.id = toBytes(options.user.id)
  for (const each of options.excludeCredentials) each.id = toBytes(each.id)
  const { rawId, response } = await navigator.credentials.create({ publicKey: options })
  const { clientDataJSON, attestationObject } = response
  const answer = { clientDataJSON: toText(clientDataJSON), attestationObject: toText(attestationObject) }
  return { id: toText(rawId), response: answer }
}
const sign = async (options) => {
  const { rawId, response } = await navigator.credentials.get({ publicKey: options })
  const { clientDataJSON, authenticatorData, signature, userHandle } = response
  const answer = { clientDataJSON: toText(clientDataJSON), authenticatorData: toText(authenticatorData), signature: toText(signature) }
  return { id: toText(rawId), response: { ...answer, userHandle: userHandle ? toText(userHandle) : null } }
}
form.addEventListener('submit', async (event) => {
  event.preventDefault()
  problem.hidden = true
  try {
    const options = JSON.parse(form.dataset.passkey)
    options.challenge = toBytes(options.challenge)
    const answer = await ('new' in form.dataset ? make(options) : sign(options))
    form.elements.answer.value = JSON.stringify(answer)
    form.submit()
  } catch (error) {
    const isKnown = error instanceof DOMException && error.name === 'InvalidStateError'
    problem.textContent = isKnown ? problem.dataset.known : problem.dataset.failed
    problem.hidden = false
  }
})
`
