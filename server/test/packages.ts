/** Packages of the tests for test files beside the code, which would not find them there (`install.ts`). */
export { Validator } from '@seriousme/openapi-schema-validator'
export { default as llama2 } from 'llama-tokenizer-js'
export { default as llama3 } from 'llama3-tokenizer-js'
export { Webhook } from 'standardwebhooks'
export { default as Stripe } from 'stripe'
