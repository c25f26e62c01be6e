/** An organization that has not paid is new for so long (K2). Both who caps its spending and who limits its rate count from its creation. */
export const NEW_ACCOUNT_DAYS = 7
