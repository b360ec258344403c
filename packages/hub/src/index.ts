export { repositoryOfSnapshot } from './cache/hub-cache.js';
export type { ModelPart } from './download/needed-files.js';
export { type ResolveModelOptions, resolveModel } from './download/resolve-model.js';
export type { ResolvedModel } from './download/resolved-model.js';
export { type HubEnvironment, type HubSettings, hubSettings } from './hub-settings.js';
export {
  type HubRepository,
  type HubRepositoryFile,
  parseGgufFile,
  parseRepository,
} from './repository.js';
export type { Patience } from './requests/hub-client.js';
