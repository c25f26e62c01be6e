/** Loaded into a rival that has no option for its address, so that a bench run listens on loopback only. */
import { Server } from 'node:net'

const listen = Server.prototype.listen
Server.prototype.listen = function (first, ...rest) {
  if (typeof first === 'number')
    return listen.call(this, { port: first, host: '127.0.0.1' }, ...rest.filter(isFunction))
  if (typeof first === 'object' && first !== null && 'port' in first) {
    return listen.call(this, { ...first, host: '127.0.0.1' }, ...rest)
  }
  return listen.call(this, first, ...rest)
}

function isFunction(value) {
  return typeof value === 'function'
}
