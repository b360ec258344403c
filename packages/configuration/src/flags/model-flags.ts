import { schemasOfArchitecture } from '../architecture/fields-of.js';

/** The architecture: GPT-2 with Megatron-LM's names. */
export const modelFlags = schemasOfArchitecture('others');
