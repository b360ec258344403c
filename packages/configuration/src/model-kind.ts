/** The models that can be trained. */
export const modelKinds = ['gpt', 'bert'] as const;

export type ModelKind = (typeof modelKinds)[number];
