/** Notes that a test has seen ranks communicate over an engine; `npm test` prints how often each was. */
export declare function reportEngine(engine: string): void;
