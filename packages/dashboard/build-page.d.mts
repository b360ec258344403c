/** Bundles the page into dist/page. */
export function buildPage(): Promise<void>;
