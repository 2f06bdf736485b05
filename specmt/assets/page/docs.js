// The description of every route, from /openapi.json; nothing is asked of other servers.
const dark = matchMedia("(prefers-color-scheme: dark)");
const dress = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", dress);
dress();
SwaggerUIBundle({ url: "openapi.json", domNode: document.getElementById("api"), validatorUrl: null, deepLinking: true });
