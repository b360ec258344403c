/** Whether a flag whose value is from this source has it from the defaults or from a preset alone. */
export const isDefaultSource = (source: string | undefined): boolean =>
  source === undefined || source === 'default' || source.startsWith('preset ');
