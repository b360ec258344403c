/** Bundles the page into the folder page of a build. */
export function buildPage(build: string): Promise<void>;
