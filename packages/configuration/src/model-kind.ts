/** The models that can be trained. */
export type ModelKind = 'gpt' | 'bert';
