// Lets the keyboard reach those parts of mdBook's pages that only a pointer reaches. site/look.mjs checks it.
(() => {
    // Tables and code that are wider than the window scroll when they have the focus.
    const reachable = () => {
        for (const element of document.querySelectorAll("main .table-wrapper, main pre > code")) {
            if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
            else element.removeAttribute("tabindex");
        }
    };
    reachable();
    addEventListener("resize", reachable);
    addEventListener("load", reachable);

    // The button of the list of pages is a label of a hidden box, which has no key.
    const button = document.getElementById("mdbook-sidebar-toggle");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        button.click();
    });
})();
