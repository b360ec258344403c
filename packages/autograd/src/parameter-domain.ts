import { type MeshView, meshViews } from '@mtl/comm';
import type { Parameter } from './parameter.js';

/** Parameters whose gradients are summed over the same processes. */
export interface ParameterDomain {
  readonly view: MeshView;
  readonly parameters: readonly Parameter[];
}

/** The domains of a model's parameters, each in their order; one of no parameters where there are none. */
export function domainsOf(parameters: readonly Parameter[]): readonly ParameterDomain[] {
  const domains = (Object.keys(meshViews) as MeshView[]).map((view) => ({
    view,
    parameters: parameters.filter(({ placement }) => placement.view === view),
  }));
  return parameters.length === 0 ? domains.slice(0, 1) : domains.filter((each) => each.parameters.length > 0);
}
